"""Players that think in processes of their own: the processes, and what they answer."""
