"""What is kept: images, pins, checkpoints and the store that holds their bytes."""
