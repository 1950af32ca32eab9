package client

import "iter"

// walk yields the items of all pages from a cursor on, one page being asked
// for when the one before is used up. An error is the last that it yields.
func walk[T any](cursor *string, page func(cursor *string) ([]T, *string, error)) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for at := cursor; ; {
			items, next, err := page(at)
			if err != nil {
				var none T
				yield(none, err)
				return
			}
			for _, item := range items {
				if !yield(item, nil) {
					return
				}
			}
			if next == nil || *next == "" {
				return
			}
			at = next
		}
	}
}
