/* Takes long numbers out of what a model says, also those that are cut over several pieces: see redact_numbers.py, which does the
 * same. Configuration: {"digits": 7}. Built by: smg-gateway plugin build redact_numbers.c */
#define SMG_SETUP
#define SMG_EXCHANGE
#define SMG_PIECES
#include "smg_plugin.h"

enum { LONGEST = 64, CHOICES = 128, UTF8 = 4 };
typedef struct { /* the text of one choice */
  char held[(LONGEST + 1) * UTF8];
  uint16_t size;
  uint8_t count, digits; /* characters that are held, and digits among them */
  bool inside;
} numbers;
static numbers texts[CHOICES];
static unsigned fewest = 7;
static char *out;

smg_text configure(smg_text config) {
  unsigned found = 0;
  for (size_t i = 0; i < config.size; i++)
    if (config.at[i] >= '0' && config.at[i] <= '9') found = found * 10 + (unsigned)(config.at[i] - '0');
  if (found > LONGEST) return SMG_TEXT("digits: at most 64");
  if (found) fewest = found;
  return (smg_text){0, 0};
}

void begin(smg_about about) {
  for (size_t i = 0; i < CHOICES; i++) texts[i] = (numbers){.size = 0};
}
void finish(void) {}

enum smg_mode wanted(void) { return SMG_WANTS_TEXT; }

typedef struct { const char *at; uint8_t size; bool is_digit, is_between; } character;

static bool is_digit(uint32_t c) { /* the same as in redact_numbers.py */
  static const uint32_t zeros[] = {0x30,  0x660, 0x6f0, 0x7c0, 0x966,  0x9e6,  0xa66,  0xae6,   0xb66,   0xbe6,   0xc66,   0xce6,  0xd66,
                                   0xe50, 0xed0, 0xf20, 0x1040, 0x17e0, 0x1810, 0xff10, 0x1d7ce, 0x1d7d8, 0x1d7e2, 0x1d7ec, 0x1d7f6};
  for (size_t i = 0; i < sizeof zeros / sizeof *zeros; i++)
    if (c - zeros[i] < 10) return true;
  return false;
}

static bool is_between(uint32_t c) {
  static const uint16_t between[] = {' ',    '.',    '(',    ')',    '-',    '/',    ',',    '_',    '\t',   '\n',   '\r',  0xa0,
                                     0xad,   0x2007, 0x2009, 0x200a, 0x202f, 0x3000, 0x2010, 0x2011, 0x2012, 0x2013, 0x2014, 0x2212};
  for (size_t i = 0; i < sizeof between / sizeof *between; i++)
    if (c == between[i]) return true;
  return false;
}

static character next(smg_text text, size_t at, bool masks) { /* texts are UTF-8 that was checked */
  uint8_t first = (uint8_t)text.at[at], size = first < 0x80 ? 1 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
  uint32_t c = size == 1 ? first : first & (0x7fu >> size);
  for (uint8_t i = 1; i < size; i++) c = c << 6 | ((uint8_t)text.at[at + i] & 0x3f);
  return (character){text.at + at, size, is_digit(c), is_between(c) && !(masks && c == ',')};
}

static void say(const char *at, size_t size) { for (size_t i = 0; i < size; i++) *out++ = at[i]; }

static void ended(numbers *n) { /* what was held back of a number that ends here, or was none */
  say(n->held, n->size);
  *n = (numbers){.size = 0};
}

static void hold(numbers *n, character c) {
  for (uint8_t i = 0; i < c.size; i++) n->held[n->size++] = c.at[i];
  n->count++;
}

static void after(numbers *n, character c, bool masks) {
  static const char instead[] = "[number]";
  if (!c.is_digit && !(c.is_between && (n->size || n->inside))) {
    ended(n);
    say(c.at, c.size);
    return;
  }
  if (n->inside && masks) {
    say(c.is_digit ? "9" : c.at, c.is_digit ? 1 : c.size);
  } else if (n->inside) {
    if (c.is_digit) n->size = n->count = 0;
    else hold(n, c);
    if (n->count > LONGEST) ended(n);
  } else {
    hold(n, c);
    n->digits += c.is_digit;
    if (n->digits >= fewest) {
      const smg_text held = {n->held, n->size};
      if (!masks) say(instead, sizeof instead - 1);
      for (size_t i = 0; masks && i < held.size;) {
        character each = next(held, i, masks);
        say(each.is_digit ? "9" : each.at, each.is_digit ? 1 : each.size);
        i += each.size;
      }
      *n = (numbers){.inside = true};
    } else if (n->count > LONGEST) {
      ended(n);
    }
  }
}

smg_text_verdict on_piece(smg_piece piece) {
  if (piece.choice >= CHOICES) return smg_refuse(400, SMG_TEXT("There are too many choices for a plugin of this gateway."));
  numbers *n = &texts[piece.choice];
  size_t room = piece.text.size * sizeof "[number]" + 2 * sizeof n->held;
  char *made = out = smg_alloc(room);
  const bool masks = piece.kind == SMG_KIND_ARGUMENTS;
  for (size_t i = 0; i < piece.text.size;) {
    character each = next(piece.text, i, masks);
    after(n, each, masks);
    i += each.size;
  }
  if (piece.last) ended(n);
  size_t size = (size_t)(out - made);
  bool changed = size != piece.text.size;
  for (size_t i = 0; i < size && !changed; i++) changed = made[i] != piece.text.at[i];
  return changed ? smg_replace((smg_text){made, size}) : smg_proceed();
}
