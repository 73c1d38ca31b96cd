"""What the programs in containers share; each image copies this folder."""
