// Package turns has callers that want the same thing take turns, in the order
// in which they came, so that what they share is asked by few of them at once.
// It starts no goroutine and keeps nothing of those who have left.
package turns

import "sync"

// Turns has a line for each key that somebody stands in. It is safe for
// concurrent use.
type Turns[K comparable, S any] struct {
	width int
	mu    sync.Mutex
	lines map[K]*Line[S]
}

// New gives each line as many turns at once as its width.
func New[K comparable, S any](width int) *Turns[K, S] {
	return &Turns[K, S]{width: width, lines: map[K]*Line[S]{}}
}

// Line is those who want the same. It lives while somebody stands in it.
type Line[S any] struct {
	// Notes are what who has had a turn leaves for who has the next: zero at
	// first. Whoever has a turn may use them, and with a width of 1 nobody else
	// does meanwhile.
	Notes S

	turns   chan struct{} // holds a token for each turn that nobody has
	members int
}

// Turn yields when the caller's turn comes. The channel serves those who wait
// in the order in which they began to. Who has received Passes.
func (l *Line[S]) Turn() <-chan struct{} { return l.turns }

// Pass gives a turn on to the next.
func (l *Line[S]) Pass() { l.turns <- struct{}{} }

// Join returns the line of a key. Who joins Leaves.
func (t *Turns[K, S]) Join(key K) *Line[S] {
	t.mu.Lock()
	defer t.mu.Unlock()
	l, ok := t.lines[key]
	if !ok {
		l = &Line[S]{turns: make(chan struct{}, t.width)}
		for range t.width {
			l.Pass()
		}
		t.lines[key] = l
	}
	l.members++
	return l
}

// Leave ends what Join began, after the caller's turn, if it had one.
func (t *Turns[K, S]) Leave(key K) {
	t.mu.Lock()
	defer t.mu.Unlock()
	l := t.lines[key]
	if l.members--; l.members == 0 {
		delete(t.lines, key)
	}
}

// Members is how many stand in the line of a key.
func (t *Turns[K, S]) Members(key K) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	if l, ok := t.lines[key]; ok {
		return l.members
	}
	return 0
}
