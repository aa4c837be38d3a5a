"""The operator's console: the frame of the admin, its sidebar and its dashboard. The pages of rows are each app's own."""
