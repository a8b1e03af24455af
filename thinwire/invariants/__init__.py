"""What must hold inside each sound record, whoever wrote it, and between records of one pair."""
