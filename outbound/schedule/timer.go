package schedule

import (
	"container/heap"
	"time"
)

// timer refreshes a queue at the time of queue.wakeAt, even if no method is called for the
// queue until then.
type timer struct {
	queue *queue
	at    time.Time
	index int // in the heap, from 1; 0: the timer is not set
}

// timers is a heap of the timers that are set, with the earliest first.
type timers []*timer

func (t timers) Len() int           { return len(t) }
func (t timers) Less(i, j int) bool { return t[i].at.Before(t[j].at) }
func (t timers) Swap(i, j int) {
	t[i], t[j] = t[j], t[i]
	t[i].index, t[j].index = i+1, j+1
}

// Push implements heap.Interface.
func (t *timers) Push(x any) {
	added := x.(*timer) //nolint:forcetypeassert // only set calls heap.Push
	*t = append(*t, added)
	added.index = len(*t)
}

// Pop implements heap.Interface.
func (t *timers) Pop() any {
	last := (*t)[len(*t)-1]
	(*t)[len(*t)-1] = nil
	*t = (*t)[:len(*t)-1]
	last.index = 0
	return last
}

// set sets or moves a timer. It reports whether the timer is now the earliest.
func (t *timers) set(x *timer, at time.Time) (earliest bool) {
	if x.index > 0 && x.at.Equal(at) {
		return false
	}
	x.at = at
	if x.index == 0 {
		heap.Push(t, x)
	} else {
		heap.Fix(t, x.index-1)
	}
	return x.index == 1
}

func (t *timers) unset(x *timer) {
	if x.index > 0 {
		heap.Remove(t, x.index-1)
	}
}

// due removes and returns a timer whose time has come, or returns nil.
func (t *timers) due(now time.Time) *timer {
	if len(*t) == 0 || (*t)[0].at.After(now) {
		return nil
	}
	return heap.Pop(t).(*timer) //nolint:forcetypeassert // the heap has timers only
}
