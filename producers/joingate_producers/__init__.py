"""The SDK of Join Gate: clients for planners, executors, approvers and observers."""
