// Package chunks reads a stream of unknown length into memory that grows with the bytes
// received. A Buffer allocates at most twice the bytes read plus one small chunk, and takes its
// memory from the caller's Account. Growing copies no bytes; Join copies them once.
package chunks

import (
	"errors"
	"io"
	"slices"
)

// Account is a memory budget. Take reserves n bytes; its error means that the caller must not
// use them. Return returns n bytes.
type Account interface {
	Take(n int) error
	Return(n int)
}

// ErrTooLong is the error of Read for a stream that is longer than the limit.
var ErrTooLong = errors.New("more bytes than the limit")

// A further chunk is as large as all bytes received so far, within these sizes in bytes.
const (
	minChunk = 4 << 10
	maxChunk = 64 << 10
)

// Buffer holds the bytes of a stream that is being read. Call Start first, then Read, then
// Join. A Buffer never returns memory to the Account except in Join: the caller must return
// the rest. Buffer is not safe for concurrent use.
type Buffer struct {
	account Account
	limit   int
	full    [][]byte // chunks without free space
	last    []byte
	size    int // bytes in full
}

// Start makes prefix the first chunk, with capacity for at least extra more bytes, and takes
// its capacity from account. limit is the maximum number of bytes to read after the prefix.
// Start returns the error of the account. Call it once.
func (b *Buffer) Start(account Account, prefix []byte, extra, limit int) error {
	b.account, b.limit = account, len(prefix)+limit
	b.last = slices.Grow(prefix, extra)
	return account.Take(cap(b.last))
}

// Read reads r until io.EOF. It takes the memory of each chunk from the account before it
// allocates the chunk. announced is the expected number of bytes, such as a Content-Length, or
// -1; it only sizes chunks. Read returns ErrTooLong, the error of the account or the error of
// r.
func (b *Buffer) Read(r io.Reader, announced int) error {
	end := b.Len() + announced + 1 // io.EOF needs space for one more byte
	for {
		if len(b.last) == cap(b.last) {
			if err := b.grow(end - b.Len()); err != nil {
				return err
			}
		}
		n, err := r.Read(b.last[len(b.last):cap(b.last)])
		b.last = b.last[:len(b.last)+n]
		switch {
		case b.Len() > b.limit:
			return ErrTooLong
		case err == io.EOF:
			return nil
		case err != nil:
			return err
		}
	}
}

// grow adds a chunk. If expected is positive, it is the number of bytes still to read.
func (b *Buffer) grow(expected int) error {
	size := min(max(b.Len(), minChunk), maxChunk, b.limit+1-b.Len())
	if expected > 0 {
		size = min(size, expected)
	}
	if err := b.account.Take(size); err != nil {
		return err
	}
	b.full, b.size = append(b.full, b.last), b.size+len(b.last)
	b.last = slices.Grow([]byte(nil), size)
	if rounded := cap(b.last) - size; rounded > 0 { // the allocator rounds up
		return b.account.Take(rounded)
	}
	return nil
}

// Len returns the number of bytes, including the prefix.
func (b *Buffer) Len() int { return b.size + len(b.last) }

// Join returns the prefix and all bytes read in one slice; of the memory of the Buffer, only
// the slice remains taken from the account. Join returns the error of the account if the copy
// does not fit. Do not use the Buffer after Join.
func (b *Buffer) Join() ([]byte, error) {
	if len(b.full) == 0 {
		return b.last, nil
	}
	if err := b.account.Take(b.Len()); err != nil {
		return nil, err
	}
	whole, chunks := make([]byte, 0, b.Len()), cap(b.last)
	for _, c := range b.full {
		whole = append(whole, c...)
		chunks += cap(c)
	}
	whole = append(whole, b.last...)
	b.account.Return(chunks)
	b.full, b.last, b.size = nil, nil, 0
	return whole, nil
}
