"""Monte-Carlo search of Daihinmin over sampled deals."""
