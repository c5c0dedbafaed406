"""Monte-Carlo Softmax search for 2048 (Watanabe and Matsuzaki)."""
