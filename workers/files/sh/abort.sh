# Remove the temporary file.
rm -f -- "$temporary"
