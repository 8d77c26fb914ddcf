"""Where a step's rollouts come from: the order of tasks, and the worker that runs them."""
