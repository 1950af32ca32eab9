// Package datadir stores generated keys and secrets in files of the gateway's
// data folder, readable by their owner only.
package datadir
