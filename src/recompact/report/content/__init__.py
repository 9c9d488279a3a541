"""What a report says, as values: read from records, before anything of it becomes a page."""

from recompact.report.content.report import Report, read_report

__all__ = ["Report", "read_report"]
