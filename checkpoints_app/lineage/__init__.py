"""The picture of a fork tree: which points there are, where each lies, how it is drawn. `layout` and `picture` are pure."""
