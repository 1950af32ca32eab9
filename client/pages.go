package client

import "iter"

// allPages returns an iterator over the items of all pages, starting at a cursor. It requests a
// page when the items of the previous page have been yielded. It ends after the first error.
func allPages[T any](cursor *string, page func(cursor *string) ([]T, *string, error)) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for at := cursor; ; {
			items, next, err := page(at)
			if err != nil {
				var zero T
				yield(zero, err)
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
