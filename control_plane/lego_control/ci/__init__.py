"""What a pipeline reads: outcomes as JSON, JUnit, GitHub summary and annotations; gates and waiting."""
