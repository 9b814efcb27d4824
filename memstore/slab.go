// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package memstore

import "slices"

// slab keeps the rings of one shard in chunks without pointers. A block is
// exactly as long as its ring. Freed blocks wait in lists of their length, each
// holding the place of the next in its first word; once more than a small part
// of the slab waits there, the emptiest chunk is cleared out.
type slab struct {
	chunks []chunk
	lists  []freeList // sorted by size
	cur    int        // chunk that has room behind its mark
	total  int        // words in chunks
	free   int        // words in lists
}

type chunk struct {
	words []uint64
	mark  int // words handed out so far
	live  int // words in blocks that are in use
}

type freeList struct {
	size int
	head block // 0: none
}

// block is where a ring lies: chunk number + 1, and offset. 0 is nowhere.
type block uint64

// A block has 21 bits of an offset, as chunks are no longer, and 22 of a chunk, of which
// there are no more in 256 GB.
const (
	offsetBits = 21
	blockBits  = 43
	blockMask  = 1<<blockBits - 1
)

func blockAt(chunk, offset int) block { return block(chunk+1)<<offsetBits | block(offset) }

func (b block) chunk() int  { return int(b>>offsetBits) - 1 }
func (b block) offset() int { return int(b & (1<<offsetBits - 1)) }

const (
	minChunk = 256  // words
	maxChunk = 8192 // words, but for rings that are longer
	slack    = 64   // one part in so many may lie free
	growth   = 48   // a chunk is one part in so many of the slab
)

// words returns the block's memory.
func (s *slab) words(b block, size int) []uint64 {
	if b == 0 {
		return nil
	}
	at := b.offset()
	return s.chunks[b.chunk()].words[at : at+size : at+size]
}

func (s *slab) search(size int) (i int, found bool) {
	return slices.BinarySearchFunc(s.lists, size, func(l freeList, size int) int { return l.size - size })
}

// list returns the list of blocks of size, made if it is missing.
func (s *slab) list(size int) *freeList {
	i, found := s.search(size)
	if !found {
		s.lists = slices.Insert(s.lists, i, freeList{size: size})
	}
	return &s.lists[i]
}

// sparse reports whether so much lies free that a chunk should be cleared out
// before another is added.
func (s *slab) sparse() bool { return s.free > minChunk && s.free > s.total/slack }

// alloc returns a block of size words with undefined content.
func (s *slab) alloc(size int) block {
	if i, found := s.search(size); found && s.lists[i].head != 0 {
		l := &s.lists[i]
		b := l.head
		c := &s.chunks[b.chunk()]
		l.head = block(c.words[b.offset()])
		s.free -= size
		c.live += size
		return b
	}
	if s.cur >= len(s.chunks) || len(s.chunks[s.cur].words)-s.chunks[s.cur].mark < size {
		s.extend(size)
	}
	c := &s.chunks[s.cur]
	b := blockAt(s.cur, c.mark)
	c.mark += size
	c.live += size
	return b
}

// extend adds a chunk with room for size words and hands out from there.
func (s *slab) extend(size int) {
	if s.cur < len(s.chunks) {
		c := &s.chunks[s.cur]
		if rest := len(c.words) - c.mark; rest > 0 {
			s.push(blockAt(s.cur, c.mark), rest)
			c.mark = len(c.words)
		}
	}
	length := min(max(s.total/growth, minChunk), maxChunk) // a whole number of blocks, as most rings of a shard are equally long
	words := slices.Grow([]uint64(nil), (length+size-1)/size*size)
	words = words[:cap(words)]
	s.total += len(words)
	for i := range s.chunks {
		if s.chunks[i].words == nil { // cleared out
			s.chunks[i], s.cur = chunk{words: words}, i
			return
		}
	}
	s.cur = len(s.chunks)
	s.chunks = append(s.chunks, chunk{words: words})
}

// push puts a block that is not in use on its list.
func (s *slab) push(b block, size int) {
	l := s.list(size)
	s.chunks[b.chunk()].words[b.offset()] = uint64(l.head)
	l.head = b
	s.free += size
}

// release frees a block.
func (s *slab) release(b block, size int) {
	if b == 0 {
		return
	}
	s.chunks[b.chunk()].live -= size
	s.push(b, size)
}

// emptiest returns the chunk with the least in use, -1 if there is none to
// clear out.
func (s *slab) emptiest() int {
	best := -1
	for i := range s.chunks {
		c := &s.chunks[i]
		if i == s.cur || c.words == nil || c.live == len(c.words) {
			continue
		}
		if best < 0 || c.live*len(s.chunks[best].words) < s.chunks[best].live*len(c.words) {
			best = i
		}
	}
	return best
}

// abandon takes the free blocks of chunk i off their lists, so that nothing
// new is put there.
func (s *slab) abandon(i int) {
	for k := range s.lists {
		l := &s.lists[k]
		var kept block
		for b := l.head; b != 0; {
			next := block(s.chunks[b.chunk()].words[b.offset()])
			if b.chunk() == i {
				s.free -= l.size
			} else {
				s.chunks[b.chunk()].words[b.offset()] = uint64(kept)
				kept = b
			}
			b = next
		}
		l.head = kept
	}
	s.lists = slices.DeleteFunc(s.lists, func(l freeList) bool { return l.head == 0 })
}

// drop gives chunk i, which has nothing in use, back to the collector.
func (s *slab) drop(i int) {
	s.total -= len(s.chunks[i].words)
	s.chunks[i] = chunk{}
}
