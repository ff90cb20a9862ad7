import java.io.ByteArrayOutputStream;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.HashMap;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import org.apache.avro.Schema;
import org.apache.avro.SchemaNormalization;
import org.apache.avro.generic.GenericData;
import org.apache.avro.generic.GenericDatumReader;
import org.apache.avro.generic.GenericDatumWriter;
import org.apache.avro.generic.GenericRecord;
import org.apache.avro.io.BinaryDecoder;
import org.apache.avro.io.BinaryEncoder;
import org.apache.avro.io.DecoderFactory;
import org.apache.avro.io.EncoderFactory;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.processor.api.Processor;
import org.apache.kafka.streams.processor.api.ProcessorContext;
import org.apache.kafka.streams.processor.api.Record;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.Stores;

/**
 * The peer: decodes each claim, keeps one of six states per intent in RocksDB with a changelog, and writes a
 * decision that holds the claim. Exactly once (v2), one thread.
 *
 * <p>Usage: StreamsPeer BOOTSTRAP SOURCE SINK COUNT STATE_DIR SCHEMA_FILE...
 */
public final class StreamsPeer {
  private static final int HEADER = 10;

  private record Kind(String name, Schema decision, GenericDatumReader<GenericRecord> reader,
      GenericDatumWriter<GenericRecord> writer) {}

  public static void main(String[] args) throws Exception {
    String source = args[1];
    String sink = args[2];
    long count = Long.parseLong(args[3]);
    Map<Long, Kind> kinds = new HashMap<>();
    for (int i = 5; i < args.length; i++) {
      Schema claim = new Schema.Parser().parse(Files.readString(Path.of(args[i])));
      long id = ByteBuffer.wrap(SchemaNormalization.parsingFingerprint("CRC-64-AVRO", claim))
          .order(ByteOrder.LITTLE_ENDIAN).getLong();
      Schema decision = Schema.createRecord("Peer" + claim.getName(), null, "peer", false, java.util.List.of(
          new Schema.Field("seq", Schema.create(Schema.Type.LONG), null, (Object) null),
          new Schema.Field("verdict", Schema.create(Schema.Type.STRING), null, (Object) null),
          new Schema.Field("claim", claim, null, (Object) null)));
      kinds.put(id, new Kind(claim.getName(), decision, new GenericDatumReader<>(claim),
          new GenericDatumWriter<>(decision)));
    }

    Properties p = new Properties();
    p.put(StreamsConfig.APPLICATION_ID_CONFIG, sink + "-streams");
    p.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, args[0]);
    p.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, StreamsConfig.EXACTLY_ONCE_V2);
    p.put(StreamsConfig.DEFAULT_KEY_SERDE_CLASS_CONFIG, Serdes.ByteArraySerde.class);
    p.put(StreamsConfig.DEFAULT_VALUE_SERDE_CLASS_CONFIG, Serdes.ByteArraySerde.class);
    p.put(StreamsConfig.STATE_DIR_CONFIG, args[4]);
    p.put(StreamsConfig.NUM_STREAM_THREADS_CONFIG, 1);
    p.put(StreamsConfig.producerPrefix("compression.type"), "lz4");
    p.put(StreamsConfig.consumerPrefix("auto.offset.reset"), "earliest");

    CountDownLatch done = new CountDownLatch(1);
    StreamsBuilder builder = new StreamsBuilder();
    builder.addStateStore(Stores.keyValueStoreBuilder(
        Stores.persistentKeyValueStore("steps"), Serdes.String(), Serdes.String()));
    builder.stream(source, Consumed.with(Serdes.ByteArray(), Serdes.ByteArray()))
        .process(() -> new Gate(kinds, count, done), "steps")
        .to(sink, Produced.with(Serdes.ByteArray(), Serdes.ByteArray()));
    try (KafkaStreams streams = new KafkaStreams(builder.build(), p)) {
      streams.start();
      done.await();
      streams.close(Duration.ofSeconds(30));
    }
  }

  private static final class Gate implements Processor<byte[], byte[], byte[], byte[]> {
    private final Map<Long, Kind> kinds;
    private final long count;
    private final CountDownLatch done;
    private ProcessorContext<byte[], byte[]> context;
    private KeyValueStore<String, String> steps;
    private BinaryDecoder decoder;
    private BinaryEncoder encoder;
    private long seq;

    Gate(Map<Long, Kind> kinds, long count, CountDownLatch done) {
      this.kinds = kinds;
      this.count = count;
      this.done = done;
    }

    @Override
    public void init(ProcessorContext<byte[], byte[]> context) {
      this.context = context;
      this.steps = context.getStateStore("steps");
    }

    @Override
    public void process(Record<byte[], byte[]> record) {
      try {
        byte[] value = record.value();
        Kind kind = kinds.get(ByteBuffer.wrap(value, 2, 8).order(ByteOrder.LITTLE_ENDIAN).getLong());
        decoder = DecoderFactory.get().binaryDecoder(value, HEADER, value.length - HEADER, decoder);
        GenericRecord claim = kind.reader().read(null, decoder);
        String verdict = fold(claim.get("intent_id").toString(), kind.name());
        GenericRecord decision = new GenericData.Record(kind.decision());
        decision.put("seq", ++seq);
        decision.put("verdict", verdict);
        decision.put("claim", claim);
        ByteArrayOutputStream bytes = new ByteArrayOutputStream(256);
        encoder = EncoderFactory.get().binaryEncoder(bytes, encoder);
        kind.writer().write(decision, encoder);
        encoder.flush();
        context.forward(record.withValue(bytes.toByteArray()));
        if (seq == count) {
          done.countDown();
        }
      } catch (java.io.IOException problem) {
        throw new java.io.UncheckedIOException(problem);
      }
    }

    private String fold(String intent, String kind) {
      String state = steps.get(intent);
      String wanted;
      String reached;
      switch (kind) {
        case "DeclareIntent" -> { wanted = null; reached = "DECLARED"; }
        case "Plan" -> { wanted = "DECLARED"; reached = "PLANNED"; }
        case "Dispatch" -> { wanted = "PLANNED"; reached = "DISPATCHED"; }
        case "Commit" -> { wanted = "DISPATCHED"; reached = "COMMITTED"; }
        case "Succeed" -> { wanted = "COMMITTED"; reached = "SUCCEEDED"; }
        default -> { wanted = "SUCCEEDED"; reached = "CLOSED"; }
      }
      if (!java.util.Objects.equals(state, wanted)) {
        return reached.equals(state) ? "REPLAYED" : "REJECTED";
      }
      steps.put(intent, reached);
      return "ACCEPTED";
    }
  }
}
