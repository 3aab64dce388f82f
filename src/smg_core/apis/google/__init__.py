"""What Google's two APIs, generateContent and Interactions, write alike. Pure."""
