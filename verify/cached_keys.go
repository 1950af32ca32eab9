package verify

import "context"

type cachedKeysOnly struct{}

// WithCachedKeysOnly returns a context with which Keys returns cached keys and
// fetches none. It is for requests of a sender that has exhausted its budget.
func WithCachedKeysOnly(ctx context.Context) context.Context {
	return context.WithValue(ctx, cachedKeysOnly{}, true)
}

// CachedKeysOnly reports whether ctx is derived from WithCachedKeysOnly.
func CachedKeysOnly(ctx context.Context) bool {
	return ctx.Value(cachedKeysOnly{}) != nil
}
