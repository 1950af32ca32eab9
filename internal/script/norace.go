//go:build !race

package script

const racing = false

// PoolLimit is the time limit of the gateway's pools.
const PoolLimit = TimeLimit
