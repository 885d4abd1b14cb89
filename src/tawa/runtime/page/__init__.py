"""Pages: an explanation, a verdict or a report as one HTML file that needs no network, and short cells for notebooks."""
