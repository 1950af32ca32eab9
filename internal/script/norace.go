//go:build !race

package script

const racing = false

// RouteLimit is the time limit of the pools that run the scripts of routes.
const RouteLimit = TimeLimit
