package schedule

// fifo is a queue whose memory shrinks when it empties. The zero value is
// empty.
type fifo[T any] struct {
	ring  []T // its length is a power of two, or 0
	first int
	n     int
}

func (q *fifo[T]) len() int { return q.n }

func (q *fifo[T]) push(x T) {
	if q.n == len(q.ring) {
		q.grow()
	}
	q.ring[(q.first+q.n)&(len(q.ring)-1)] = x
	q.n++
}

func (q *fifo[T]) grow() {
	const least = 4
	larger := make([]T, max(least, 2*len(q.ring)))
	for i := range q.n {
		larger[i] = q.ring[(q.first+i)&(len(q.ring)-1)]
	}
	q.ring, q.first = larger, 0
}

// pop removes the oldest; there must be one.
func (q *fifo[T]) pop() T {
	var none T
	x := q.ring[q.first]
	q.ring[q.first] = none
	q.first = (q.first + 1) & (len(q.ring) - 1)
	const worthKeeping = 64
	if q.n--; q.n == 0 && len(q.ring) > worthKeeping {
		q.ring, q.first = nil, 0
	}
	return x
}
