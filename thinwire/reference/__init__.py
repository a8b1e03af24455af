"""Results that are committed: archives of their records, what is made of them, and reruns beside them."""
