package script

import "time"

// Racing says that the race detector is on.
const Racing = racing

// Within sets another time limit, for tests of other limits.
func (p *Pool) Within(d time.Duration) *Pool {
	p.limit = d
	return p
}
