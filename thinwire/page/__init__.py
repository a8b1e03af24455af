"""The page of results: one file of HTML that asks for nothing from outside."""
