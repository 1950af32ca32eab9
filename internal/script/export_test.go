package script

import "time"

// Racing is true if the race detector is on.
const Racing = racing

// Within sets the time limit of runs.
func (p *Pool) Within(d time.Duration) *Pool {
	p.limit = d
	return p
}
