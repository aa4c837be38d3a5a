"""A guest's memory seen from outside its process: which pages it wrote, and their bytes."""
