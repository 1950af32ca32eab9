package outbound

import (
	"container/heap"
	"time"
)

// alarm is when a lane wants to be looked at, though nothing happens.
type alarm struct {
	lane  *lane
	at    time.Time
	index int // in the heap, from 1; 0: it is not set
}

// alarms are those that are set, the soonest first.
type alarms []*alarm

func (a alarms) Len() int           { return len(a) }
func (a alarms) Less(i, j int) bool { return a[i].at.Before(a[j].at) }
func (a alarms) Swap(i, j int) {
	a[i], a[j] = a[j], a[i]
	a[i].index, a[j].index = i+1, j+1
}

// Push implements heap.Interface.
func (a *alarms) Push(x any) {
	added := x.(*alarm) //nolint:forcetypeassert // heap.Push is called here alone
	*a = append(*a, added)
	added.index = len(*a)
}

// Pop implements heap.Interface.
func (a *alarms) Pop() any {
	last := (*a)[len(*a)-1]
	(*a)[len(*a)-1] = nil
	*a = (*a)[:len(*a)-1]
	last.index = 0
	return last
}

// set has an alarm go off at a moment; one that is set goes off then instead.
// It reports whether it is now the soonest, and was not.
func (a *alarms) set(x *alarm, at time.Time) (sooner bool) {
	if x.index > 0 && x.at.Equal(at) {
		return false
	}
	x.at = at
	if x.index == 0 {
		heap.Push(a, x)
	} else {
		heap.Fix(a, x.index-1)
	}
	return x.index == 1
}

func (a *alarms) unset(x *alarm) {
	if x.index > 0 {
		heap.Remove(a, x.index-1)
	}
}

// due removes one that is to go off by now, nil if there is none.
func (a *alarms) due(now time.Time) *alarm {
	if len(*a) == 0 || (*a)[0].at.After(now) {
		return nil
	}
	return heap.Pop(a).(*alarm) //nolint:forcetypeassert // nothing else is in it
}
