"""Records of games of Daihinmin: their checks, the format of files, and a replay by the rules."""
