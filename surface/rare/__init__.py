"""What a walk backward seldom needs: words for its errors, forward run again, and what was overwritten in place."""
