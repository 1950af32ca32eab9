package schedule

// fifo is a first-in first-out queue that frees its memory when it becomes empty. The
// zero value is an empty queue.
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
	const minSize = 4
	larger := make([]T, max(minSize, 2*len(q.ring)))
	for i := range q.n {
		larger[i] = q.ring[(q.first+i)&(len(q.ring)-1)]
	}
	q.ring, q.first = larger, 0
}

// pop removes and returns the oldest element. It panics if the queue is empty.
func (q *fifo[T]) pop() T {
	var zero T
	x := q.ring[q.first]
	q.ring[q.first] = zero
	q.first = (q.first + 1) & (len(q.ring) - 1)
	const keptSize = 64
	if q.n--; q.n == 0 && len(q.ring) > keptSize {
		q.ring, q.first = nil, 0
	}
	return x
}
