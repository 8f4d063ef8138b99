package org.example.translate;

import java.io.ByteArrayOutputStream;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.text.Normalizer;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/**
 * Text to ids and back by a SentencePiece model of the type BPE, as keras_transformer trains them.
 *
 * <p>It reads the pieces of `tokenizer.model`, a message of Protocol Buffers:
 * https://github.com/google/sentencepiece/blob/master/src/sentencepiece_model.proto. Its
 * normalization is Unicode's NFKC. SentencePiece's own, `nmt_nfkc`, differs in rare characters.
 */
public final class SentencePiece {
  private static final int UNKNOWN = 2, CONTROL = 3, USER_DEFINED = 4, BYTE = 6; // types of pieces
  private static final String SPACE = "\u2581";

  private final List<String> pieces = new ArrayList<>();
  private final List<Float> scores = new ArrayList<>();
  private final List<Integer> types = new ArrayList<>();
  private final Map<String, Integer> ids = new HashMap<>();
  private int unknown = 0;

  /** Reads the content of a file `tokenizer.model`. */
  public SentencePiece(byte[] model) {
    ByteBuffer buffer = ByteBuffer.wrap(model).order(ByteOrder.LITTLE_ENDIAN);
    while (buffer.hasRemaining()) {
      long tag = varint(buffer);
      if (tag == (1 << 3 | 2)) { // field 1, a message: one piece
        addPiece(part(buffer));
      } else {
        skip(buffer, tag);
      }
    }
  }

  /** Returns the ids of a text, without special tokens. */
  public int[] encode(String text) {
    String normal = Normalizer.normalize(text, Normalizer.Form.NFKC).trim();
    if (normal.isEmpty()) {
      return new int[0];
    }
    List<String> symbols = new ArrayList<>();
    (SPACE + normal.replaceAll("\\s+", SPACE))
        .codePoints()
        .forEach(point -> symbols.add(new String(Character.toChars(point))));
    while (mergeBest(symbols)) {}
    List<Integer> found = new ArrayList<>();
    for (String symbol : symbols) {
      Integer id = ids.get(symbol);
      if (id != null) {
        found.add(id);
      } else {
        addBytes(symbol, found);
      }
    }
    return found.stream().mapToInt(Integer::intValue).toArray();
  }

  /** Returns the text of ids; special tokens have none. */
  public String decode(int[] row) {
    ByteArrayOutputStream text = new ByteArrayOutputStream();
    for (int id : row) {
      String piece = pieces.get(id);
      if (types.get(id) == BYTE) { // "<0x41>"
        text.write(Integer.parseInt(piece.substring(3, 5), 16));
      } else if (types.get(id) == UNKNOWN) {
        text.writeBytes(" \u2047 ".getBytes(StandardCharsets.UTF_8));
      } else if (types.get(id) != CONTROL) {
        text.writeBytes(piece.getBytes(StandardCharsets.UTF_8));
      }
    }
    String spaced = new String(text.toByteArray(), StandardCharsets.UTF_8).replace(SPACE, " ");
    return spaced.startsWith(" ") ? spaced.substring(1) : spaced;
  }

  /** Merges the pair whose piece has the highest score, the first of equals; false without one. */
  private boolean mergeBest(List<String> symbols) {
    int best = -1;
    float bestScore = Float.NEGATIVE_INFINITY;
    for (int i = 0; i + 1 < symbols.size(); i++) {
      Integer id = ids.get(symbols.get(i) + symbols.get(i + 1));
      if (id != null && scores.get(id) > bestScore) {
        best = i;
        bestScore = scores.get(id);
      }
    }
    if (best < 0) {
      return false;
    }
    symbols.set(best, symbols.get(best) + symbols.remove(best + 1));
    return true;
  }

  private void addBytes(String symbol, List<Integer> found) {
    for (byte one : symbol.getBytes(StandardCharsets.UTF_8)) {
      Integer id = ids.get(String.format("<0x%02X>", one));
      if (id == null) { // a model without byte pieces
        if (found.isEmpty() || found.get(found.size() - 1) != unknown) {
          found.add(unknown);
        }
        return;
      }
      found.add(id);
    }
  }

  private void addPiece(ByteBuffer message) {
    String piece = "";
    float score = 0;
    int type = 1;
    while (message.hasRemaining()) {
      long tag = varint(message);
      if (tag == (1 << 3 | 2)) {
        ByteBuffer text = part(message);
        byte[] bytes = new byte[text.remaining()];
        text.get(bytes);
        piece = new String(bytes, StandardCharsets.UTF_8);
      } else if (tag == (2 << 3 | 5)) {
        score = message.getFloat();
      } else if (tag == (3 << 3)) {
        type = (int) varint(message);
      } else {
        skip(message, tag);
      }
    }
    int id = pieces.size();
    if (type == UNKNOWN) {
      unknown = id;
    } else if (type != CONTROL && type != USER_DEFINED) {
      ids.put(piece, id);
    }
    pieces.add(piece);
    scores.add(score);
    types.add(type);
  }

  private static long varint(ByteBuffer buffer) {
    long value = 0;
    for (int shift = 0; ; shift += 7) {
      byte one = buffer.get();
      value |= (long) (one & 0x7F) << shift;
      if (one >= 0) {
        return value;
      }
    }
  }

  private static ByteBuffer part(ByteBuffer buffer) {
    int length = (int) varint(buffer);
    ByteBuffer part = buffer.slice().order(ByteOrder.LITTLE_ENDIAN);
    part.limit(length);
    buffer.position(buffer.position() + length);
    return part;
  }

  private static void skip(ByteBuffer buffer, long tag) {
    switch ((int) (tag & 7)) {
      case 0 -> varint(buffer);
      case 1 -> buffer.position(buffer.position() + 8);
      case 2 -> part(buffer);
      case 5 -> buffer.position(buffer.position() + 4);
      default -> throw new IllegalArgumentException("No SentencePiece model: tag " + tag);
    }
  }
}
