"""Any agent that talks to a model over HTTP as a subject: its requests are read, answered and, if need be, replayed."""
