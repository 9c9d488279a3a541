"""What is shown, as values read from records: the terminal and the page render the same ones."""
