"""What comparisons of runs may say: tests, verdicts and the words for them."""
