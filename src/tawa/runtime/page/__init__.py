"""Pages: an explanation, a verdict or a report as one HTML file that needs no network; short cells for notebooks."""
