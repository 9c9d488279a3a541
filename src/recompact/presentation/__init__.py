"""What people look at: the page, the figures and the local web application. It reads records only."""
