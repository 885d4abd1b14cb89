"""What the answers of the workers mean: results, summaries, the result file, the tables of the docs page."""
