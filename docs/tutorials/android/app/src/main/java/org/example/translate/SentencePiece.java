package org.example.translate;

import java.io.ByteArrayOutputStream;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.text.Normalizer;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;

/**
 * Text to ids and back with a SentencePiece model of type BPE or unigram.
 *
 * <p>It reads the pieces of `tokenizer.model`, a message of Protocol Buffers:
 * https://github.com/google/sentencepiece/blob/master/src/sentencepiece_model.proto. It normalizes
 * text with Unicode's NFKC. SentencePiece's own normalization, `nmt_nfkc`, differs in rare
 * characters.
 */
public final class SentencePiece {
  private static final int NORMAL = 1, UNKNOWN = 2, CONTROL = 3, BYTE = 6; // types of pieces
  private static final int UNIGRAM = 1, BPE = 2; // types of models
  private static final float UNKNOWN_PENALTY = 10; // below the lowest score, in a unigram model
  private static final Set<String> NORMALIZATIONS = Set.of("nmt_nfkc", "nfkc");
  private static final String SPACE = "\u2581";

  private final List<String> pieces = new ArrayList<>(); // in the order of the ids
  private final Map<String, Integer> ids = new HashMap<>();
  private final Map<String, Integer> types = new HashMap<>();
  private final Map<String, Float> scores = new HashMap<>(); // of the pieces in which text is split
  private final boolean hasOwnIds, rightToLeft;
  private int modelType = UNIGRAM; // the format's default
  private int unknown = 0;
  private int longest = 0; // characters of a piece
  private float lowest = 0; // score of a piece

  /** Reads the content of a file `tokenizer.model`. The ids are SentencePiece's own. */
  public SentencePiece(byte[] model) {
    hasOwnIds = true;
    rightToLeft = false;
    read(model);
  }

  /**
   * Reads a model whose ids are positions in a list of pieces, as in imported models.
   *
   * @param model the content of `tokenizer.model`.
   * @param vocabulary the content of `vocabulary.json`.
   * @param unknown the id of unknown pieces.
   * @param rightToLeft whether ids start with a sentence's last token.
   */
  public SentencePiece(byte[] model, List<String> vocabulary, int unknown, boolean rightToLeft) {
    hasOwnIds = false;
    this.rightToLeft = rightToLeft;
    read(model);
    this.unknown = unknown;
    pieces.clear();
    ids.clear();
    for (String piece : vocabulary) {
      ids.put(piece, pieces.size());
      pieces.add(piece);
    }
  }

  /** Returns the ids of a text, without special tokens. */
  public int[] encode(String text) {
    String normal = Normalizer.normalize(text, Normalizer.Form.NFKC).trim();
    if (normal.isEmpty()) {
      return new int[0];
    }
    String spaced = SPACE + normal.replaceAll("\\s+", SPACE);
    List<Integer> found = new ArrayList<>();
    StringBuilder unknowns = new StringBuilder(); // neighbors, which are one unknown piece
    for (String symbol : modelType == BPE ? merged(spaced) : likeliest(spaced)) {
      boolean isPiece = scores.containsKey(symbol);
      if (!isPiece && !types.containsKey("<0x00>")) {
        unknowns.append(symbol);
        continue;
      }
      addUnknown(unknowns, found);
      if (isPiece) {
        found.add(ids.getOrDefault(symbol, unknown));
      } else {
        for (byte one : symbol.getBytes(StandardCharsets.UTF_8)) {
          found.add(ids.getOrDefault(String.format("<0x%02X>", one), unknown));
        }
      }
    }
    addUnknown(unknowns, found);
    if (rightToLeft) {
      Collections.reverse(found);
    }
    return found.stream().mapToInt(Integer::intValue).toArray();
  }

  /** Returns the text of ids; special tokens have none. */
  public String decode(int[] row) {
    ByteArrayOutputStream text = new ByteArrayOutputStream();
    for (int i = 0; i < row.length; i++) {
      String piece = pieces.get(row[rightToLeft ? row.length - 1 - i : i]);
      int type = types.getOrDefault(piece, NORMAL);
      if (type == BYTE) { // "<0x41>"
        text.write(Integer.parseInt(piece.substring(3, 5), 16));
      } else if (type == UNKNOWN) {
        text.writeBytes(" \u2047 ".getBytes(StandardCharsets.UTF_8));
      } else if (type != CONTROL) {
        text.writeBytes(piece.getBytes(StandardCharsets.UTF_8));
      }
    }
    String spaced = new String(text.toByteArray(), StandardCharsets.UTF_8).replace(SPACE, " ");
    return hasOwnIds ? spaced.replaceFirst("^ ", "") : spaced.replaceAll("^ +| +$", "");
  }

  /** Splits text as BPE does: merges the pair with the highest score, the first of equals. */
  private List<String> merged(String text) {
    List<String> symbols = new ArrayList<>();
    text.codePoints().forEach(point -> symbols.add(new String(Character.toChars(point))));
    while (true) {
      int best = -1;
      float bestScore = Float.NEGATIVE_INFINITY;
      for (int i = 0; i + 1 < symbols.size(); i++) {
        Float score = scores.get(symbols.get(i) + symbols.get(i + 1));
        if (score != null && score > bestScore) {
          best = i;
          bestScore = score;
        }
      }
      if (best < 0) {
        return symbols;
      }
      symbols.set(best, symbols.get(best) + symbols.remove(best + 1));
    }
  }

  /** Splits text as a unigram model does: the pieces with the highest sum of scores (Viterbi). */
  private List<String> likeliest(String text) {
    int size = text.length();
    float[] best = new float[size + 1]; // the score of the text up to each place
    int[] starts = new int[size + 1]; // where the last piece of that text starts
    Arrays.fill(starts, -1);
    int next;
    for (int start = 0; start < size; start = next) {
      next = text.offsetByCodePoints(start, 1);
      for (int end = next; end <= Math.min(size, Math.max(next, start + longest)); end++) {
        Float score = scores.get(text.substring(start, end));
        if (score == null && end == next) {
          score = lowest - UNKNOWN_PENALTY;
        }
        if (score != null) {
          double sum = (double) score + best[start];
          if (starts[end] < 0 || sum > best[end]) {
            best[end] = (float) sum;
            starts[end] = start;
          }
        }
      }
    }
    List<String> symbols = new ArrayList<>();
    for (int end = size; end > 0; end = starts[end]) {
      symbols.add(text.substring(starts[end], end));
    }
    Collections.reverse(symbols);
    return symbols;
  }

  private void addUnknown(StringBuilder text, List<Integer> found) {
    if (text.length() > 0) { // a vocabulary may have pieces that SentencePiece does not know
      found.add(hasOwnIds ? unknown : ids.getOrDefault(text.toString(), unknown));
      text.setLength(0);
    }
  }

  private void read(byte[] model) {
    ByteBuffer buffer = ByteBuffer.wrap(model).order(ByteOrder.LITTLE_ENDIAN);
    while (buffer.hasRemaining()) {
      long tag = varint(buffer);
      if (tag == (1 << 3 | 2)) { // field 1, a message: one piece
        addPiece(part(buffer));
      } else if (tag == (2 << 3 | 2)) {
        readTrainer(part(buffer));
      } else if (tag == (3 << 3 | 2)) {
        readNormalizer(part(buffer));
      } else {
        skip(buffer, tag);
      }
    }
    if (modelType != UNIGRAM && modelType != BPE) {
      throw new IllegalArgumentException("The tokenizer must be of the type BPE or unigram.");
    }
  }

  private void addPiece(ByteBuffer message) {
    String piece = "";
    float score = 0;
    int type = NORMAL;
    while (message.hasRemaining()) {
      long tag = varint(message);
      if (tag == (1 << 3 | 2)) {
        piece = text(part(message));
      } else if (tag == (2 << 3 | 5)) {
        score = message.getFloat();
      } else if (tag == (3 << 3)) {
        type = (int) varint(message);
      } else {
        skip(message, tag);
      }
    }
    if (type == UNKNOWN) {
      unknown = pieces.size();
    } else if (type == NORMAL) {
      scores.put(piece, score);
      longest = Math.max(longest, piece.length());
      lowest = Math.min(lowest, score);
    }
    types.put(piece, type);
    ids.put(piece, pieces.size());
    pieces.add(piece);
  }

  private void readTrainer(ByteBuffer message) {
    while (message.hasRemaining()) {
      long tag = varint(message);
      if (tag == (3 << 3)) {
        modelType = (int) varint(message);
      } else if (tag == (24 << 3)) { // spaces belong to the word before them
        if (varint(message) != 0) {
          throw new IllegalArgumentException("The tokenizer must have spaces before words.");
        }
      } else {
        skip(message, tag);
      }
    }
  }

  private static void readNormalizer(ByteBuffer message) {
    while (message.hasRemaining()) {
      long tag = varint(message);
      if (tag == (1 << 3 | 2)) {
        String name = text(part(message));
        if (!NORMALIZATIONS.contains(name)) {
          throw new IllegalArgumentException("The tokenizer has another normalization: " + name);
        }
      } else {
        skip(message, tag);
      }
    }
  }

  private static String text(ByteBuffer bytes) {
    return StandardCharsets.UTF_8.decode(bytes).toString();
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
