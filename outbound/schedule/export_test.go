package schedule

// Held returns the deliveries and bytes in memory, and how many of the deliveries wait
// for TakeReleased.
func (s *Scheduler) Held() (deliveries, bytes, released int) { return s.held, s.bytes, len(s.released) }
