"""Inside policy networks of 2048 (Matsuzaki and Teramura)."""
