"""The pages of the viewer: templates, a style sheet on top of the report's, and a little script."""
