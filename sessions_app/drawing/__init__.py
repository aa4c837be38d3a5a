"""Pictures as text: SVG made of plain values. Pure: no Django, no database; whatever a customer wrote is escaped here, and nowhere else."""
