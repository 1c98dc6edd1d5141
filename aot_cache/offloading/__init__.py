"""When which storage leaves near memory and comes back: the record, the planner, and the passes that carry it out."""
