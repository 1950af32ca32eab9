package pg

import (
	"context"

	"github.com/jackc/pgx/v5/pgconn"
)

// pipeline runs prepared statements in one transaction without a round trip for each. In
// PostgreSQL's extended protocol, all statements before a Sync are one transaction, which
// the Sync commits. An error rolls the transaction back, and only commit returns it.
// After an error that the database reported, the connection can be used again; after any
// other error it is closed.
type pipeline struct {
	*pgconn.Pipeline
	conn   *pgconn.PgConn
	unread int        // statements whose results were not read
	rows   [][][]byte // of the last statement that commit has read
	err    error
}

func newPipeline(ctx context.Context, conn *pgconn.PgConn) *pipeline {
	return &pipeline{Pipeline: conn.StartPipeline(ctx), conn: conn}
}

// send sends a statement with the values of its parameters, nil if it has no parameters.
// commit reads its result.
func (p *pipeline) send(s *statement, c *columns) {
	var params [][]byte
	var formats []int16
	if c != nil {
		params, formats = c.values(s)
	}
	p.SendQueryPrepared(s.name, params, formats, binaryResults)
	p.unread++
}

// query sends a statement and waits for its rows: one round trip.
func (p *pipeline) query(s *statement, c *columns) [][][]byte {
	if p.err != nil {
		return nil
	}
	p.send(s, c)
	p.SendFlushRequest()
	if p.err = p.Flush(); p.err != nil {
		return nil
	}
	return p.readAll()
}

// readAll reads the results of all statements that were sent, and returns the rows of the
// last.
func (p *pipeline) readAll() (rows [][][]byte) {
	for ; p.unread > 0 && p.err == nil; p.unread-- {
		answer, err := p.GetResults()
		if err != nil {
			p.err = err
			return nil
		}
		reader, ok := answer.(*pgconn.ResultReader)
		if !ok {
			p.err = errNoAnswer
			_ = p.conn.Conn().Close() // rolls back
			return nil
		}
		result := reader.Read()
		rows, p.err = result.Rows, result.Err
	}
	return rows
}

// commit commits the transaction in one round trip, or returns the first error.
func (p *pipeline) commit() error {
	if p.err == nil {
		p.err = p.Sync()
		p.rows = p.readAll()
	} else if _, ok := asPgError(p.err); ok {
		_ = p.Sync() // rolls back: PostgreSQL skips all statements between an error and the Sync
	}
	if err := p.Close(); p.err == nil { // reads the end of the transaction
		p.err = err
	}
	return p.err
}
