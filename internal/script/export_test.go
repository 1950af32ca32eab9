package script

import "time"

// Racing says that the race detector is on.
const Racing = racing

// Within gives every run another time, for tests that are about something else.
func (p *Pool) Within(d time.Duration) *Pool {
	p.limit = d
	return p
}
