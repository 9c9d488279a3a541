"""What an audit says: sentences, JSON and the page."""
