"""Tasks as folders: an instruction, the files of a workspace, and a check that judges what became of them."""
